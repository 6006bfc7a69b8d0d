package process

import "os"

// helperName is how a helper is called, so that it knows itself.
const helperName = "drawbridge-sandbox-helper"

// Init must be the first thing that main, or TestMain, does. In a process that
// was started as a helper it does the helper's work and does not return. It
// does nothing else.
func Init() Self {
	if len(os.Args) == 1 && os.Args[0] == helperName {
		os.Exit(helperMain())
	}
	return Self{ok: true}
}
