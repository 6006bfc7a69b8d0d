package dirstore

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"hash"
	"io"
	"io/fs"
	"math"
	"os"
	"strconv"
	"time"

	"github.com/drawbridge-sdk/drawbridge/authz/credential"
	"github.com/drawbridge-sdk/drawbridge/connector/artifact"
	"github.com/drawbridge-sdk/drawbridge/toolresult"
)

const (
	chunkSize = 64 << 10      // bytes of an artifact that are sealed together
	maxSealed = chunkSize * 2 // and at most so many when they are
)

// place is where a chunk belongs. The number and the reference are in it, so
// that no file can stand in for another, nor chunks change places.
func place(tenant string, r artifact.Ref, n int64) credential.Place {
	return credential.Place{Tenant: tenant, Record: r.String(), Field: "chunk " + strconv.FormatInt(n, 10)}
}

// writeChunks writes each chunk behind its length, four bytes, big-endian.
func (s *Store) writeChunks(ctx context.Context, w io.Writer, m *artifact.Meta, r io.Reader, max int64) (size int64, digest string, err error) {
	max = min(max, math.MaxInt64-1)
	sum, buf := sha256.New(), make([]byte, chunkSize)
	for n := int64(0); ; n++ {
		if err := ctx.Err(); err != nil {
			return 0, "", err
		}
		k, err := io.ReadFull(r, buf[:min(chunkSize, max+1-size)])
		last := err == io.EOF || err == io.ErrUnexpectedEOF
		if err != nil && !last {
			return 0, "", toolresult.WrapError(toolresult.Code(err), "the artifact could not be read", err)
		}
		if size += int64(k); size > max {
			return 0, "", toolresult.NewError(toolresult.ResultTooLarge, "the artifact is too large")
		}
		sum.Write(buf[:k])
		if k > 0 {
			if err := s.writeChunk(w, place(m.Tenant, m.Ref, n), buf[:k]); err != nil {
				return 0, "", err
			}
		}
		if last {
			return size, "sha256:" + hex.EncodeToString(sum.Sum(nil)), nil
		}
	}
}

func (s *Store) writeChunk(w io.Writer, at credential.Place, chunk []byte) (err error) {
	if s.seal != nil {
		if chunk, err = s.seal.Seal(at, chunk); err != nil {
			return err
		}
	}
	if len(chunk) > maxSealed {
		return errors.New("dirstore: a sealed chunk is more than twice as long as it was")
	}
	if _, err = w.Write(binary.BigEndian.AppendUint32(nil, uint32(len(chunk)))); err != nil {
		return err
	}
	_, err = w.Write(chunk)
	return err
}

// reader reads an artifact chunk by chunk and checks the digest at the end.
type reader struct {
	ctx   context.Context
	store *Store
	name  string
	meta  artifact.Meta
	sum   hash.Hash
	file  *os.File
	chunk []byte
	n     int64 // chunks read
	read  int64 // bytes read
	err   error // of the first failure, for good
}

// Read checks each time that the artifact is still there.
func (r *reader) Read(p []byte) (int, error) {
	if r.err == nil {
		r.err = r.here()
	}
	if r.err == nil && len(r.chunk) == 0 {
		r.err = r.next()
	}
	if r.err != nil {
		return 0, r.err
	}
	n := copy(p, r.chunk)
	r.chunk = r.chunk[n:]
	return n, nil
}

// here reports that the artifact was removed or is over.
func (r *reader) here() error {
	if err := r.ctx.Err(); err != nil {
		return toolresult.WrapError(toolresult.Code(err), "the artifact was not read to its end", err)
	}
	_, err := r.store.root.Stat(r.name + metaSuffix)
	if errors.Is(err, fs.ErrNotExist) || !time.Now().Before(r.meta.Expires) {
		return notFound()
	}
	return failure(r.ctx, err)
}

// next fetches a chunk. At the end it is io.EOF, or ErrDigest.
func (r *reader) next() error {
	if r.file == nil {
		f, err := r.store.root.Open(r.name + dataSuffix)
		if errors.Is(err, fs.ErrNotExist) {
			return notFound()
		}
		if err != nil {
			return failure(r.ctx, err)
		}
		r.file = f
	}
	var length [4]byte
	if _, err := io.ReadFull(r.file, length[:]); err == io.EOF {
		if r.read != r.meta.Size || "sha256:"+hex.EncodeToString(r.sum.Sum(nil)) != r.meta.Digest {
			return artifact.ErrDigest
		}
		return io.EOF
	} else if err != nil {
		return r.damaged(err)
	}
	size := binary.BigEndian.Uint32(length[:])
	if size == 0 || size > maxSealed {
		return artifact.ErrDigest
	}
	chunk := make([]byte, size)
	if _, err := io.ReadFull(r.file, chunk); err != nil {
		return r.damaged(err)
	}
	if r.store.seal != nil {
		var err error
		if chunk, err = r.store.seal.Open(place(r.meta.Tenant, r.meta.Ref, r.n), chunk); err != nil {
			return failure(r.ctx, err)
		}
	}
	if len(chunk) == 0 || r.read+int64(len(chunk)) > r.meta.Size {
		return artifact.ErrDigest
	}
	r.sum.Write(chunk)
	r.chunk, r.n, r.read = chunk, r.n+1, r.read+int64(len(chunk))
	return nil
}

// damaged tells a file that is too short from one that cannot be read.
func (r *reader) damaged(err error) error {
	if errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.EOF) {
		return artifact.ErrDigest
	}
	return failure(r.ctx, err)
}

// Close ends the reading. It does not check the digest.
func (r *reader) Close() error {
	if r.err == nil {
		r.err = fs.ErrClosed
	}
	if r.file == nil {
		return nil
	}
	return r.file.Close()
}
