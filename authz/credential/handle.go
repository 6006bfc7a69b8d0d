package credential

import "crypto/rand"

// NewHandle returns a handle that nobody can guess and that differs from every
// other one, for those who write a [Broker]. It stands for whatever the broker
// says it does.
func NewHandle() Handle { return Handle{rand.Text()} }
