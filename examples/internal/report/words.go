package report

import "regexp"

// causal are words that claim a cause.
func causal() *regexp.Regexp {
	return regexp.MustCompile(`(?i)\b(caus(e|ed|es|ing)|because|due to|led to|leads to|root[- ]cause[sd]?|result(ed|s)? (in|from)|trigger(s|ed)?|responsible for|owing to|attribut(ed|able) to|brought (down|about)|broke|exhaust(ed|s|ion)|introduced by|stems? from|explains?)\b`)
}

// denial are sentences that use such a word to say that nothing is claimed.
func denial() *regexp.Regexp {
	return regexp.MustCompile(`(?i)\b(cause (is |was )?(not|un)[ -]?(yet )?(established|known|determined|proven)|no cause|not (shown|proven|known) to (cause|have caused)|does not (show|prove|establish) (a |the )?cause)\b`)
}

// exclusive are words that rule something out.
func exclusive() *regexp.Regexp {
	return regexp.MustCompile(`(?i)\b(rul(e|es|ed|ing) out|exclud(e|es|ed)|cannot be|is not the|was not the|no sign of|never happened|eliminat(e|ed|es)|there (is|was|were) no)\b`)
}

// done are words that say that something has reached somebody.
func done() *regexp.Regexp {
	return regexp.MustCompile(`(?i)\b(notified|notification (was )?(sent|delivered)|paged|informed|has been told)\b`)
}
