package scopeql

import "strings"

// aggregation reports whether a word is a function that takes a list of labels,
// before or after its arguments.
func aggregation(word string) bool {
	switch word {
	case "sum", "avg", "count", "min", "max", "stddev", "stdvar", "group", "topk", "bottomk", "quantile", "count_values":
		return true
	}
	return false
}

// function reports whether a word is a function that reads nothing but its
// arguments. info is not one of them.
func function(word string) bool {
	switch word {
	case "rate", "irate", "increase", "delta", "idelta", "deriv", "predict_linear", "changes", "resets",
		"histogram_quantile", "histogram_count", "histogram_sum", "histogram_avg", "histogram_fraction",
		"abs", "ceil", "floor", "round", "clamp", "clamp_min", "clamp_max", "exp", "ln", "log2", "log10", "sqrt", "sgn",
		"avg_over_time", "min_over_time", "max_over_time", "sum_over_time", "count_over_time", "quantile_over_time",
		"stddev_over_time", "stdvar_over_time", "last_over_time", "present_over_time", "absent_over_time",
		"label_replace", "label_join", "absent", "scalar", "vector", "time", "timestamp", "sort", "sort_desc":
		return true
	}
	return false
}

// binary reports whether a word or a sign stands between two operands.
func binary(word string) bool {
	switch word {
	case "+", "-", "*", "/", "%", "^", "and", "or", "unless", "atan2":
		return true
	}
	return comparison(word)
}

func comparison(word string) bool {
	switch word {
	case "==", "!=", ">", "<", ">=", "<=":
		return true
	}
	return false
}

// promql walks over a PromQL text. Operands and operators take turns.
func (p *prover) promql() {
	for p.operand() {
		for p.follows() {
		}
		if p.over {
			return
		}
	}
}

// operand reads up to the end of the next operand that is not a call. It
// reports whether there was one.
func (p *prover) operand() bool {
	for p.refusal == nil {
		switch t := p.next(); {
		case t.kind == operator && (t.text == "+" || t.text == "-"):
		case t.kind == number, t.kind == str:
			p.ended(0)
			return true
		case t.kind == '(':
			p.push(t.at, frame{})
		case t.kind == '{':
			p.selector(t)
			return true
		case t.kind == ident:
			if p.named(t) {
				return true
			}
		default:
			p.refuse(t.at, "an operand is missing")
		}
	}
	return false
}

// named reads an operand that begins with a name, and reports whether it has
// ended. If it has not, a call has been opened.
func (p *prover) named(t token) (ended bool) {
	word, after := strings.ToLower(t.text), p.peek()
	switch {
	case after.kind == '{': // any word can be the name of a metric
		p.next()
		p.selector(after)
		return true
	case word == "nan" || word == "inf":
		p.ended(0)
		return true
	case aggregation(word) && grouping(after):
		p.next()
		p.list()
	case !aggregation(word) && !function(word):
		p.refuse(t.at, "a metric without braces, or a function that is not known")
		return false
	}
	if p.peek().kind != '(' {
		p.refuse(t.at, "a metric without braces")
		return false
	}
	p.push(p.next().at, frame{call: true, aggregates: aggregation(word)})
	if p.peek().kind != ')' {
		return false
	}
	p.close(p.next()) // time()
	return true
}

// follows reads what comes after an operand. It reports whether an operand has
// ended again, so that more may follow. Otherwise another has to come, or the
// text is over.
func (p *prover) follows() bool {
	switch t := p.next(); {
	case t.kind == eof:
		p.over = true
		return false
	case t.kind == span:
		p.extend(t)
		return true
	case t.kind == ')':
		p.close(t)
		return true
	case t.kind == ',' && p.top().call:
		return false
	case t.kind == operator && binary(t.text), t.kind == ident && binary(strings.ToLower(t.text)):
		p.modifiers(t.text)
		return false
	default:
		p.refuse(t.at, "an operator is missing, or a modifier that is not known")
	}
	return false
}

func (p *prover) close(t token) {
	if f := p.pop(t.at); f.aggregates && grouping(p.peek()) {
		p.next()
		p.list()
	}
}

// modifiers reads what may stand behind an operator. A word that turns out to
// be the name of a metric, because a brace follows it, has done no harm: its
// selector is proven next.
func (p *prover) modifiers(op string) {
	if comparison(op) && fold(p.peek().text, "bool") && p.peek().kind == ident {
		p.next()
	}
	if !p.word("on", "ignoring") || p.peek().kind == '{' {
		return
	}
	p.list()
	if p.word("group_left", "group_right") && p.peek().kind == '(' {
		p.list()
	}
}

// word takes the next token if it is one of two words.
func (p *prover) word(a, b string) bool {
	t := p.peek()
	if t.kind != ident || !fold(t.text, a) && !fold(t.text, b) {
		return false
	}
	p.next()
	return true
}

func grouping(t token) bool {
	return t.kind == ident && (fold(t.text, "by") || fold(t.text, "without"))
}

// list reads a list of labels in parentheses.
func (p *prover) list() {
	if t := p.next(); t.kind != '(' {
		p.refuse(t.at, "a list of labels is missing")
		return
	}
	for t := p.next(); t.kind != ')'; t = p.next() {
		if t.kind != ident && t.kind != ',' {
			p.refuse(t.at, "a list of labels with something else in it")
			return
		}
	}
}
