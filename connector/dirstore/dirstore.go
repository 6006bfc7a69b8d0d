package dirstore

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"strconv"
	"strings"
	"time"

	"github.com/drawbridge-sdk/drawbridge/authz/credential"
	"github.com/drawbridge-sdk/drawbridge/connector/artifact"
	"github.com/drawbridge-sdk/drawbridge/toolresult"
)

const (
	metaSuffix, dataSuffix, tempSuffix = ".meta", ".data", ".temp"

	maxMeta  = 4 << 20        // bytes of a file with what is known
	orphaned = 24 * time.Hour // after that, what an upload that died has left is swept
)

// ErrOptions says that Open was asked for something it does not do. It is
// returned wrapped.
var ErrOptions = errors.New("dirstore: options")

// Sealer seals bytes at rest for one place each. *credential.Keyring is one.
// It is safe for concurrent use.
type Sealer interface {
	Seal(at credential.Place, text []byte) ([]byte, error)
	Open(at credential.Place, sealed []byte) ([]byte, error)
}

// Options are options of Open.
type Options struct {
	// Seal seals the bytes of artifacts. Nil is refused unless Plaintext is set.
	Seal Sealer

	// Plaintext says aloud that bytes may lie in the directory as they are. It
	// is refused with Seal set.
	Plaintext bool
}

// Store is an artifact.Store in a directory. Neither Put nor a reader holds more
// than two chunks of 64 KiB. It is safe for concurrent use by any number of
// goroutines and processes. It writes with the permissions 0600 and 0700.
type Store struct {
	root *os.Root
	seal Sealer // nil: in clear
}

var _ artifact.Store = (*Store)(nil)

// Open returns a store in a directory, which it makes if it is not there. It
// fails with ErrOptions, or as the file system does. opts must say how bytes are
// sealed, or that they are not.
func Open(dir string, opts *Options) (*Store, error) {
	if opts == nil {
		opts = &Options{}
	}
	switch {
	case dir == "":
		return nil, fmt.Errorf("%w: no directory", ErrOptions)
	case opts.Seal == nil && !opts.Plaintext:
		return nil, fmt.Errorf("%w: set Seal, or say Plaintext", ErrOptions)
	case opts.Seal != nil && opts.Plaintext:
		return nil, fmt.Errorf("%w: Plaintext and Seal are both set", ErrOptions)
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("dirstore: %w", err)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, fmt.Errorf("dirstore: %w", err)
	}
	return &Store{root, opts.Seal}, nil
}

// Close closes the directory. What is read or written meanwhile fails.
func (s *Store) Close() error { return s.root.Close() }

// Put implements [artifact.Store].
func (s *Store) Put(ctx context.Context, meta *artifact.Meta, r io.Reader, max int64) error {
	if err := meta.Check(); err != nil {
		return err
	}
	m := *meta
	if _, err := m.MarshalJSON(); err != nil { // before anything is stored
		return err
	}
	dir := tenantDir(m.Tenant)
	if err := s.root.MkdirAll(path.Join(dir, numbersOf(m.Ref)), 0o700); err != nil {
		return failure(ctx, err)
	}
	n, err := s.claim(ctx, path.Join(dir, numbersOf(m.Ref)))
	if err != nil {
		return failure(ctx, err)
	}
	m.Ref.N = n
	name := path.Join(dir, fileOf(m.Ref))
	if err := s.write(ctx, name, &m, r, max); err != nil {
		_ = s.drop(name) // or a sweep does
		return err
	}
	meta.Ref.N, meta.Size, meta.Digest = n, m.Size, m.Digest
	return nil
}

// claim takes the next number. A number whose artifact fails is lost.
func (s *Store) claim(ctx context.Context, dir string) (int, error) {
	for {
		if err := ctx.Err(); err != nil {
			return 0, err
		}
		entries, err := fs.ReadDir(s.root.FS(), dir)
		if err != nil {
			return 0, err
		}
		last := 0
		for _, e := range entries {
			if n, err := strconv.Atoi(e.Name()); err == nil {
				last = max(last, n)
			}
		}
		f, err := s.root.OpenFile(path.Join(dir, strconv.Itoa(last+1)), os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
		switch {
		case err == nil:
			return last + 1, errors.Join(f.Close(), s.sync(dir))
		case !errors.Is(err, fs.ErrExist):
			return 0, err
		}
	}
}

// write puts the bytes on disk, and then what makes them an artifact.
func (s *Store) write(ctx context.Context, name string, m *artifact.Meta, r io.Reader, max int64) error {
	err := s.create(name+dataSuffix, func(f *os.File) (err error) {
		m.Size, m.Digest, err = s.writeChunks(ctx, f, m, r, max)
		return err
	})
	if err != nil {
		return failure(ctx, err)
	}
	text, err := m.MarshalJSON()
	if err != nil {
		return err
	}
	temp := name + tempSuffix
	err = s.create(temp, func(f *os.File) error {
		_, err := f.Write(text)
		return err
	})
	if err == nil {
		err = s.root.Rename(temp, name+metaSuffix)
	}
	if err == nil {
		err = s.sync(path.Dir(name))
	}
	return failure(ctx, err)
}

// create makes a file that nobody else makes, and takes it to the disk.
func (s *Store) create(name string, write func(*os.File) error) error {
	f, err := s.root.OpenFile(name, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	if err = write(f); err == nil {
		err = f.Sync()
	}
	return errors.Join(err, f.Close())
}

// sync takes the names in a directory to the disk.
func (s *Store) sync(dir string) error {
	d, err := s.root.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// drop removes an artifact, and first what makes it exist.
func (s *Store) drop(name string) error {
	var errs []error
	for _, suffix := range []string{metaSuffix, tempSuffix, dataSuffix} {
		if err := s.root.Remove(name + suffix); err != nil && !errors.Is(err, fs.ErrNotExist) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// Open implements [artifact.Store].
func (s *Store) Open(ctx context.Context, tenant string, ref artifact.Ref) (*artifact.Meta, io.ReadCloser, error) {
	name := path.Join(tenantDir(tenant), fileOf(ref))
	m, err := s.meta(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil, notFound()
	}
	if err == nil && (m.Tenant != tenant || m.Ref != ref) {
		err = fmt.Errorf("%w: its file belongs to another", artifact.ErrMeta)
	}
	if err != nil {
		return nil, nil, failure(ctx, err)
	}
	if !time.Now().Before(m.Expires) {
		return nil, nil, notFound()
	}
	return m, &reader{ctx: ctx, store: s, name: name, meta: *m, sum: sha256.New()}, nil
}

func (s *Store) meta(name string) (*artifact.Meta, error) {
	f, err := s.root.Open(name + metaSuffix)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxMeta+1))
	if err != nil {
		return nil, err
	}
	if len(text) > maxMeta {
		return nil, fmt.Errorf("%w: what is known about it is too long", artifact.ErrMeta)
	}
	var m artifact.Meta
	return &m, m.UnmarshalJSON(text)
}

// Purge implements [artifact.Store]. A file that cannot be read is an error, and
// does not keep it from the others.
func (s *Store) Purge(ctx context.Context, tenant, connection string) error {
	return failure(ctx, s.each(ctx, tenantDir(tenant), func(m *artifact.Meta) bool { return m.Connection == connection }))
}

// Sweep removes what is over, of all tenants, and what an upload that died has
// left more than a day ago. It returns soon after ctx ends. A file that cannot be
// read is an error, and does not keep it from the others. Its errors name files:
// they are for operators.
func (s *Store) Sweep(ctx context.Context) error {
	tenants, err := fs.ReadDir(s.root.FS(), ".")
	errs := []error{err}
	for _, t := range tenants {
		if t.IsDir() && ctx.Err() == nil {
			errs = append(errs, s.each(ctx, t.Name(), func(m *artifact.Meta) bool { return !time.Now().Before(m.Expires) }), s.orphans(ctx, t.Name()))
		}
	}
	return errors.Join(append(errs, ctx.Err())...)
}

// each removes those artifacts of a tenant that over says so of.
func (s *Store) each(ctx context.Context, dir string, over func(*artifact.Meta) bool) error {
	entries, err := fs.ReadDir(s.root.FS(), dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	errs := []error{err}
	for _, e := range entries {
		base, ok := strings.CutSuffix(e.Name(), metaSuffix)
		if !ok {
			continue
		}
		if err := ctx.Err(); err != nil {
			return errors.Join(append(errs, err)...)
		}
		name := path.Join(dir, base)
		m, err := s.meta(name)
		switch {
		case errors.Is(err, fs.ErrNotExist): // somebody else removed it
		case err != nil:
			errs = append(errs, fmt.Errorf("%s: %w", name+metaSuffix, err))
		case over(m):
			errs = append(errs, s.drop(name))
		}
	}
	return errors.Join(errs...)
}

// orphans removes old files of uploads that never became artifacts.
func (s *Store) orphans(ctx context.Context, dir string) error {
	entries, err := fs.ReadDir(s.root.FS(), dir)
	errs := []error{err}
	for _, e := range entries {
		ext := path.Ext(e.Name())
		if ctx.Err() != nil || ext != dataSuffix && ext != tempSuffix {
			continue
		}
		info, err := e.Info()
		if err != nil || time.Since(info.ModTime()) < orphaned {
			continue // gone meanwhile, or young
		}
		name := path.Join(dir, strings.TrimSuffix(e.Name(), ext))
		if _, err := s.root.Stat(name + metaSuffix); errors.Is(err, fs.ErrNotExist) {
			errs = append(errs, s.drop(name))
		}
	}
	return errors.Join(errs...)
}

// Names are digests, because tenants and runs may be any text, and a file system
// may take two of them for one.
func tenantDir(tenant string) string { return digest("tenant", tenant) }

func numbersOf(r artifact.Ref) string { return "numbers/" + digest(r.Run, r.Name) }

func fileOf(r artifact.Ref) string { return digest(r.Run, r.Name) + "-" + strconv.Itoa(r.N) }

func digest(a, b string) string {
	h := sha256.New()
	fmt.Fprintf(h, "%d %s %s", len(a), a, b)
	return hex.EncodeToString(h.Sum(nil))
}

func notFound() error { return toolresult.NewError(toolresult.NotFound, "no such artifact") }

// failure keeps errors that have a meaning of their own.
func failure(ctx context.Context, err error) error {
	switch {
	case err == nil, errors.Is(err, artifact.ErrDigest):
		return err
	case ctx.Err() != nil:
		err = fmt.Errorf("%w: %w", ctx.Err(), err)
	}
	var known *toolresult.Error
	if errors.As(err, &known) {
		return err
	}
	return toolresult.WrapError(toolresult.Code(err), "the artifacts' directory does not do what was asked", err)
}
