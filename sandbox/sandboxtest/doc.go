// Package sandboxtest attacks an executor and says what got through.
//
// It is for the CI of who runs programs in a sandbox: against the executors of
// package sandbox/process, against a container, against a service of one's own.
// Every case is one thing that a hostile or careless program tries. It is tried
// twice: first without any sandbox, where it must succeed, because an attempt
// that fails anyway proves nothing; then inside, where it must not.
//
//	func TestMain(m *testing.M) {
//		sandboxtest.Guest() // this binary is also the hostile program
//		self = process.Init()
//		os.Exit(m.Run())
//	}
//
//	func TestSandbox(t *testing.T) {
//		x, _ := process.New(&process.Options{Self: self})
//		sandboxtest.Run(t, x, &sandboxtest.Options{Must: []sandbox.Claim{sandbox.NetEgress}})
//	}
//
// # Verdicts
//
// held: it succeeded outside and failed inside. BREACHED: the executor claims
// to stop it and did not. BLOCKED: something that the rules permit did not
// work. VACUOUS: it fails outside too. MISSING: a claim in Must is not made.
// PRETENDED: the executor says that it does not hold the claim, and started
// nevertheless when it was required. These five in capitals fail the test.
// gap: the executor does not claim it, says why, and refused when it was
// required. absent: the machine lacks what the attempt needs, with the reason.
// Nothing is skipped.
//
// # What this package does not do
//
// It knows the attacks that it knows: passing is no proof that there is no
// other. It sends nothing beyond loopback, and it does not attack the kernel.
package sandboxtest
