package artifact

// Memory is a Store that forgets everything with the process.
type Memory struct{ max int64 }

// NewMemory returns a store that holds at most maxBytes.
func NewMemory(maxBytes int64) *Memory { return &Memory{max: maxBytes} }
