package peers

import (
	"crypto/sha256"
	_ "embed"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/drawbridge-sdk/drawbridge/internal/alr"
)

//go:embed redmine.rb
var redmineSeed string

const redmineHome = "/usr/share/redmine"

// Redmine starts a Redmine on a SQLite database of its own and returns its base
// URL. It knows the users with the keys alr.TicketKey (may see and create issues
// in the project "inc") and alr.TicketKeyNoRight (may see nothing), the custom
// fields 1 operation_key, 2 payload_sha256 and 3 approval_ref, a project
// "secret" of another tenant, and gives the first created issue the number
// alr.Ticket.
//
// It needs the Debian packages redmine, redmine-sqlite and puma. The seeded
// database (half a minute) is kept in the user's cache directory, by the version
// of Redmine and the seed; a start from it takes about 6 s.
func Redmine(t testing.TB) string {
	t.Helper()
	const packages = "redmine redmine-sqlite puma"
	programs := find(t, packages, "puma", "rake", "ruby")
	version, err := os.ReadFile(filepath.Join(redmineHome, "lib/redmine/version.rb"))
	if err != nil {
		absent(t, "Redmine is not installed (Debian packages %s): %v", packages, err)
	}
	r := newRedmine(t, programs)
	r.database(t, string(version))
	addr := freePort(t)
	cmd := exec.Command(r.puma, "-e", "production", "-b", "tcp://"+addr, "-t", "2:4", "config.ru")
	cmd.Dir, cmd.Env = redmineHome, append(os.Environ(), r.env...)
	s := start(t, r.dir, cmd)
	s.ready(t, "http://"+addr+"/users/current.json", http.Header{"X-Redmine-Api-Key": {alr.TicketKey}}, http.StatusOK)
	return "http://" + addr
}

type redmine struct {
	dir              string
	puma, rake, ruby string
	env              []string
}

// newRedmine lays out an instance directory as Debian's Redmine expects it.
func newRedmine(t testing.TB, programs []string) *redmine {
	r := &redmine{dir: t.TempDir(), puma: programs[0], rake: programs[1], ruby: programs[2]}
	for _, name := range []string{"config", "files", "log", "tmp", "public/plugin_assets"} {
		if err := os.MkdirAll(filepath.Join(r.dir, name), 0o755); err != nil {
			t.Fatalf("peers: %v", err)
		}
	}
	write(t, filepath.Join(r.dir, "config/database.yml"), "production: {adapter: sqlite3, encoding: utf8, database: "+filepath.Join(r.dir, "redmine.db")+"}\n")
	write(t, filepath.Join(r.dir, "config/secret_key.txt"), strings.Repeat("0123456789abcdef", 4))
	r.env = []string{
		// The instance's name is a path below a system directory; this one leads
		// out of it, so that nothing has to be written there.
		"REDMINE_INSTANCE=" + strings.Repeat("../", 16) + strings.TrimPrefix(r.dir, "/"),
		"RAILS_ENV=production", "SCHEMA=" + filepath.Join(r.dir, "schema.rb"),
	}
	r.env = append(r.env, seedValues()...)
	return r
}

// seedValues are the variables that redmine.rb reads.
func seedValues() []string {
	return []string{
		"TICKET_KEY=" + alr.TicketKey, "TICKET_KEY_NO_RIGHT=" + alr.TicketKeyNoRight,
		"CANARY=" + alr.Canary, fmt.Sprint("FIRST_ISSUE=", alr.Ticket),
	}
}

// database puts a seeded database in place, from the cache if there is one.
func (r *redmine) database(t testing.TB, version string) {
	file := filepath.Join(r.dir, "redmine.db")
	sum := sha256.Sum256([]byte(version + redmineSeed + strings.Join(seedValues(), "\n")))
	cache := cacheFile(fmt.Sprintf("redmine-%x.db", sum[:8]))
	if text, err := os.ReadFile(cache); err == nil {
		write(t, file, string(text))
		return
	}
	write(t, filepath.Join(r.dir, "seed.rb"), redmineSeed)
	run(t, redmineHome, r.env, r.rake, "db:migrate")
	run(t, redmineHome, r.env, r.ruby, "bin/rails", "runner", filepath.Join(r.dir, "seed.rb"))
	r.keep(t, file, cache)
}

// keep copies the database into the cache. Another process may do the same at
// the same time: a rename lets one of them win.
func (r *redmine) keep(t testing.TB, file, cache string) {
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatalf("peers: %v", err)
	}
	if err := os.MkdirAll(filepath.Dir(cache), 0o700); err != nil {
		t.Logf("peers: not kept for the next test: %v", err)
		return
	}
	part := fmt.Sprintf("%s.%d", cache, os.Getpid())
	write(t, part, string(text))
	if err := os.Rename(part, cache); err != nil {
		t.Logf("peers: not kept for the next test: %v", err)
	}
}

func cacheFile(name string) string {
	dir, err := os.UserCacheDir()
	if err != nil {
		dir = os.TempDir()
	}
	return filepath.Join(dir, "drawbridge-peers", name)
}
