//go:build unix

package main

import (
	"syscall"
	"time"
)

const clock = "processor time"

// spent is the processor time of this process and of the children that it has
// waited for.
func spent() time.Duration {
	var sum time.Duration
	for _, who := range []int{syscall.RUSAGE_SELF, syscall.RUSAGE_CHILDREN} {
		var u syscall.Rusage
		if err := syscall.Getrusage(who, &u); err != nil {
			panic(err) // it has no other reason than a mistake here
		}
		sum += time.Duration(u.Utime.Nano() + u.Stime.Nano())
	}
	return sum
}
