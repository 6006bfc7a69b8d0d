//go:build !linux

package main

const (
	threadMode = iota
	reexecMode
)

func start(int, string) (row, error) { return row{}, errNotHere{"sandboxes are for Linux"} }
