//go:build !unix

package main

import "time"

const clock = "time on the clock"

var began = time.Now()

// spent is the time on the clock, where processor time is not to be had.
func spent() time.Duration { return time.Since(began) }
