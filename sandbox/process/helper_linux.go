package process

import (
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/drawbridge-sdk/drawbridge/sandbox"
)

// What the helper finds as descriptors.
const (
	fdSpec    = 3 // a pipe with the spec as JSON
	fdControl = 4 // a socket, on which it hands out descriptors and says what failed
)

// The first byte of a message of the helper. When the socket closes without a
// failure, the program runs.
const (
	msgListener = 'L' // with the listener in the program's network
	msgNotify   = 'N' // with the descriptor that tells of denied calls
	msgReady    = 'R' // a trial went through; nothing was started
	msgFailed   = 'E' // with the reason
)

// spec is what a helper has to do. The parent makes all decisions.
type spec struct {
	Trial bool // do all of it but start nothing

	Path, Dir string
	Args, Env []string

	System         bool
	Read, Write    []string
	Deny, ReadOnly []string
	Pins           []sandbox.Pin

	ABI    int // of Landlock; 0: without
	Filter program
	Notify bool
	Listen bool

	Tasks, FileSize uint64 // 0: no limit

	namespaces uintptr // the parent's, when it starts the helper
}

// program is a filter in JSON as bytes: 300 objects would take longer to read
// than all mounts take to make.
type program []unix.SockFilter

// MarshalText encodes 8 bytes for an instruction.
func (p program) MarshalText() ([]byte, error) {
	raw := make([]byte, 0, 8*len(p))
	for _, c := range p {
		raw = binary.LittleEndian.AppendUint16(raw, c.Code)
		raw = append(raw, c.Jt, c.Jf)
		raw = binary.LittleEndian.AppendUint32(raw, c.K)
	}
	return base64.StdEncoding.AppendEncode(nil, raw), nil
}

// UnmarshalText decodes them.
func (p *program) UnmarshalText(text []byte) error {
	raw, err := base64.StdEncoding.AppendDecode(nil, text)
	if err != nil || len(raw)%8 != 0 {
		return errors.New("a filter that is not understood")
	}
	*p = nil
	for ; len(raw) > 0; raw = raw[8:] {
		*p = append(*p, unix.SockFilter{Code: binary.LittleEndian.Uint16(raw), Jt: raw[2], Jf: raw[3], K: binary.LittleEndian.Uint32(raw[4:])})
	}
	return nil
}

// helperMain does the work and becomes the program. The result is an exit
// status, if it does not.
func helperMain() int {
	runtime.LockOSThread() // what is confined is this thread, and it is this thread that becomes the program
	unix.CloseOnExec(fdControl)
	s, err := readSpec()
	if err == nil {
		err = s.run()
	}
	if err != nil {
		unix.Sendmsg(fdControl, append([]byte{msgFailed}, err.Error()...), nil, nil, 0)
	}
	return 125
}

func readSpec() (*spec, error) {
	f := os.NewFile(fdSpec, "spec")
	defer f.Close()
	text, err := io.ReadAll(f)
	if err != nil {
		return nil, fmt.Errorf("spec: %w", err)
	}
	s := &spec{}
	if err := json.Unmarshal(text, s); err != nil {
		return nil, fmt.Errorf("spec: %w", err)
	}
	return s, nil
}

// run follows an order that matters: files first, while there is still the
// right to mount; capabilities before Landlock; the filter last, because it
// denies what the steps before it do.
func (s *spec) run() error {
	if err := s.newRoot(); err != nil {
		return err
	}
	if s.Listen {
		if err := s.network(); err != nil {
			return err
		}
	}
	if err := s.limits(); err != nil {
		return err
	}
	if err := os.Chdir(s.Dir); err != nil {
		return fmt.Errorf("directory: %w", err)
	}
	if err := dropCapabilities(); err != nil {
		return err
	}
	if err := noNewPrivileges(); err != nil {
		return err
	}
	if s.ABI > 0 {
		if err := landlock(s.ABI, s.grants()); err != nil {
			return err
		}
	}
	if len(s.Filter) > 0 {
		if err := s.filter(); err != nil {
			return err
		}
	}
	if err := unix.CloseRange(3, ^uint(0), unix.CLOSE_RANGE_CLOEXEC); err != nil {
		return fmt.Errorf("descriptors: %w", err)
	}
	if s.Trial {
		return unix.Sendmsg(fdControl, []byte{msgReady}, nil, nil, 0)
	}
	return fmt.Errorf("exec %s: %w", s.Path, syscall.Exec(s.Path, append([]string{s.Path}, s.Args...), s.Env))
}

// network brings up the only interface and hands out a listener on it.
func (s *spec) network() error {
	if err := loopbackUp(); err != nil {
		return fmt.Errorf("network: loopback: %w", err)
	}
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("network: %w", err)
	}
	defer unix.Close(fd)
	if err := unix.Bind(fd, &unix.SockaddrInet4{Port: proxyPort, Addr: [4]byte{127, 0, 0, 1}}); err != nil {
		return fmt.Errorf("network: bind: %w", err)
	}
	if err := unix.Listen(fd, 128); err != nil {
		return fmt.Errorf("network: listen: %w", err)
	}
	if err := unix.Sendmsg(fdControl, []byte{msgListener}, unix.UnixRights(fd), nil, 0); err != nil {
		return fmt.Errorf("network: hand out: %w", err)
	}
	return nil
}

func loopbackUp() error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	var request struct {
		name  [unix.IFNAMSIZ]byte
		flags uint16
		_     [22]byte
	}
	copy(request.name[:], "lo")
	request.flags = unix.IFF_UP | unix.IFF_RUNNING
	if _, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), unix.SIOCSIFFLAGS, uintptr(unsafe.Pointer(&request))); errno != 0 {
		return errno
	}
	return nil
}

func (s *spec) limits() error {
	for _, l := range []struct {
		resource int
		value    uint64
	}{{unix.RLIMIT_NPROC, s.Tasks}, {unix.RLIMIT_FSIZE, s.FileSize}} {
		if l.value == 0 {
			continue
		}
		if err := unix.Setrlimit(l.resource, &unix.Rlimit{Cur: l.value, Max: l.value}); err != nil {
			return fmt.Errorf("limits: %w", err)
		}
	}
	// A core file would hold the memory of a program with its secrets.
	if err := unix.Setrlimit(unix.RLIMIT_CORE, &unix.Rlimit{}); err != nil {
		return fmt.Errorf("limits: %w", err)
	}
	return nil
}

// filter loads the filter and hands out the descriptor that tells of denials.
func (s *spec) filter() error {
	fd, err := seccomp(s.Filter, s.Notify)
	if err != nil || fd < 0 {
		return err
	}
	defer unix.Close(fd)
	if err := unix.Sendmsg(fdControl, []byte{msgNotify}, unix.UnixRights(fd), nil, 0); err != nil {
		return fmt.Errorf("seccomp: hand out: %w", err)
	}
	return nil
}

// grants are a second lock on the files: the root already holds nothing else.
func (s *spec) grants() []grant {
	out := deviceGrants()
	if s.System {
		out = append(out, systemGrants()...)
	}
	for _, p := range s.Read {
		out = append(out, grant{p, readDir})
	}
	for _, p := range s.Write {
		out = append(out, grant{p, writeDir})
	}
	return append(out, grant{"/tmp", writeDir}, grant{"/proc", readDir}, grant{"/dev", readDir})
}
