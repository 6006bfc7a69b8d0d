//go:build linux && !amd64

package sandboxtest

var foreignProgram = []byte("none")

const foreignAbsent = "this machine has no second architecture that a program could call"
