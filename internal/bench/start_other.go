//go:build !linux

package main

const (
	threadMode = iota
	reexecMode
)

func start(int) (row, error) { return row{}, errNotHere{"sandboxes are for Linux"} }
