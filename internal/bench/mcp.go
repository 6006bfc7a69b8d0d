package main

import (
	"context"

	"github.com/drawbridge-sdk/drawbridge/internal/interop/governedcall"
)

// governedCall compares a governed tools/call with the SDK's typed tool.
func governedCall() (row, error) {
	ctx := context.Background()
	ours, err := governedcall.Governed(ctx)
	if err != nil {
		return row{}, err
	}
	base, err := governedcall.Typed(ctx)
	if err != nil {
		return row{}, err
	}
	run := func(s *governedcall.Side) func() {
		return func() {
			if err := s.Call(ctx); err != nil {
				panic(err)
			}
		}
	}
	return row{name: "governed tools/call in memory, SDK's typed AddTool", ours: run(ours), base: run(base)}, nil
}
