package sandboxtest

// foreignProgram is a whole program of 64 bits that makes one system call of
// another architecture (int 0x80, getpid) and ends with status 0 if it lived:
// a filter that knows only its own numbers lets it pass.
var foreignProgram = elf([]byte{
	0xb8, 20, 0, 0, 0, // mov eax, 20
	0xcd, 0x80, // int 0x80
	0x31, 0xff, // xor edi, edi
	0xb8, 60, 0, 0, 0, // mov eax, 60
	0x0f, 0x05, // syscall
})

const foreignAbsent = ""

// elf wraps code into the smallest file that the kernel starts.
func elf(code []byte) []byte {
	const at = 0x400000
	h := make([]byte, 120)
	copy(h, "\x7fELF\x02\x01\x01")
	put := func(off int, v uint64, n int) {
		for i := range n {
			h[off+i] = byte(v >> (8 * i))
		}
	}
	put(16, 2, 2)      // executable
	put(18, 62, 2)     // x86-64
	put(20, 1, 4)      // version
	put(24, at+120, 8) // entry
	put(32, 64, 8)     // program headers
	put(52, 64, 2)
	put(54, 56, 2)
	put(56, 1, 2)
	put(64, 1, 4) // load
	put(68, 5, 4) // read and execute
	put(80, at, 8)
	put(88, at, 8)
	put(96, uint64(120+len(code)), 8)
	put(104, uint64(120+len(code)), 8)
	put(112, 0x1000, 8)
	return append(h, code...)
}
