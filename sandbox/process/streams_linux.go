package process

import (
	"errors"
	"io"
	"os"
	"sync"
	"sync/atomic"
	"time"
)

// streams are the three pipes of a program. A program is never given one of
// the host's own descriptors: it could open the file again through /proc.
type streams struct {
	child   [3]*os.File
	readers []*os.File
	stdin   *os.File
	copies  sync.WaitGroup
	cut     atomic.Bool
}

// newStreams makes the pipes. start must follow.
func newStreams() (s *streams, err error) {
	s = &streams{}
	defer func() {
		if err != nil {
			s.close()
		}
	}()
	if s.child[0], s.stdin, err = os.Pipe(); err != nil {
		return s, err
	}
	for i := 1; i < 3; i++ {
		r, w, err := os.Pipe()
		if err != nil {
			return s, err
		}
		s.readers, s.child[i] = append(s.readers, r), w
	}
	return s, nil
}

// start copies until the program and its children have closed their ends.
func (s *streams) start(in io.Reader, out, errs io.Writer, limit int64) {
	s.started()
	if in == nil {
		s.stdin.Close()
	} else {
		// Nobody waits for this one: it ends when in ends or the program has
		// closed its end, whichever is later.
		go func() {
			io.Copy(s.stdin, in)
			s.stdin.Close()
		}()
	}
	for i, w := range []io.Writer{out, errs} {
		s.copies.Go(func() { s.copy(s.readers[i], w, limit) })
	}
}

// started closes the ends that the program has its own copies of.
func (s *streams) started() {
	for _, f := range s.child {
		f.Close()
	}
}

// copy delivers at most limit bytes and reads on, so that the program is not
// stopped by a full pipe.
func (s *streams) copy(r *os.File, w io.Writer, limit int64) {
	if w == nil {
		w = io.Discard
	}
	buffer := make([]byte, 32<<10)
	for {
		n, err := r.Read(buffer)
		keep := min(int64(n), limit)
		if int64(n) > keep {
			s.cut.Store(true)
		}
		if keep > 0 {
			limit -= keep
			if _, werr := w.Write(buffer[:keep]); werr != nil {
				w = io.Discard
			}
		}
		if err != nil {
			return
		}
	}
}

// finish waits for what is still in the pipes, but not for a process that got
// away and holds them open.
func (s *streams) finish(delay time.Duration) {
	done := make(chan struct{})
	go func() { s.copies.Wait(); close(done) }()
	timer := time.NewTimer(delay)
	defer timer.Stop()
	select {
	case <-done:
	case <-timer.C:
	}
	s.stdin.Close()
	for _, r := range s.readers {
		r.Close()
	}
	<-done
}

func (s *streams) close() error {
	var errs []error
	for _, f := range append(append([]*os.File{s.stdin}, s.child[:]...), s.readers...) {
		if f != nil {
			errs = append(errs, f.Close())
		}
	}
	return errors.Join(errs...)
}
