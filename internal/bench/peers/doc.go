// Package peers measures tools/list and tools/call over the HTTP handlers of
// this module and of other people's servers, in one process:
//
//	cd internal/bench/peers && go test -run TestPeers -v -count=1 . -rounds 15
//
// It prints one JSON object per line: name, ours_ns, base_ns, ratio, the same
// of processor time, allocs, base_allocs, bytes, base_bytes. The sides take turns, and the medians of their
// rounds are printed. Tests hold allocations, bytes and memory; times are noisy
// and only reported.
//
// Ours is governed: a token is verified, the policy is asked, arguments and
// answer are validated, what was granted is checked again and the call is
// recorded. The others do nothing of the kind. No side has a socket.
package peers
