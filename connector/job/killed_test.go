package job_test

import (
	"bufio"
	"context"
	"database/sql"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/drawbridge-sdk/drawbridge/connector/job"
	"github.com/drawbridge-sdk/drawbridge/connector/sqlstore"
)

// victimEnv makes this program the one that is killed. It has the dialect; the
// arguments are driver and DSN.
const victimEnv = "DRAWBRIDGE_JOB_VICTIM"

// aDay is a sweep whose next period is too far off to explain anything.
func aDay(run func(context.Context) error) job.Sweep {
	return job.Sweep{Name: "s", Every: 24 * time.Hour, Timeout: time.Second, Run: run}
}

// victim says that its sweep has begun, and stays in it.
func victim() {
	dialect, err := strconv.Atoi(os.Getenv(victimEnv))
	if err != nil {
		panic(err)
	}
	db, err := sql.Open(os.Args[1], os.Args[2])
	if err != nil {
		panic(err)
	}
	r, err := job.Open(context.Background(), db, sqlstore.Dialect(dialect), []job.Sweep{aDay(func(context.Context) error {
		fmt.Println("begun")
		select {}
	})}, nil)
	if err != nil {
		panic(err)
	}
	panic(r.Run(context.Background()))
}

// killed takes the process that leads and runs the sweep. Another takes both
// over: it leads once the other's lease is over, and runs it again once the run
// is over its time.
func killed(t *testing.T, p place) {
	cmd := exec.Command(os.Args[0], p.driver, p.dsn)
	cmd.Env = append(os.Environ(), fmt.Sprintf("%s=%d", victimEnv, p.dialect))
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	line, err := bufio.NewReader(out).ReadString('\n')
	_ = cmd.Process.Kill()
	_ = cmd.Wait()
	require.NoError(t, err)
	require.Equal(t, "begun\n", line)
	require.Equal(t, 1, p.count(t, "state = 'running'"), "it was killed in the middle")

	var runs atomic.Int64
	p.start(t, nil, aDay(func(context.Context) error {
		runs.Add(1)
		return nil
	}))
	eventually(t, func() bool { return p.count(t, "state = 'completed'") > 0 }, "it is taken over")
	require.EqualValues(t, 1, runs.Load())
	require.Equal(t, 1, p.count(t, "true"), "as the same job")
}
