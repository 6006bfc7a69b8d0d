package lazyre

import (
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestRegexp(t *testing.T) {
	re := New(`a(b+)`)
	var users sync.WaitGroup
	for range 4 {
		users.Go(func() {
			if !re.MatchString("xabb") || re.MatchString("xa") {
				t.Error("it matches something else")
			}
		})
	}
	users.Wait()
	require.Equal(t, []string{"abb", "bb"}, re.FindStringSubmatch("xabbx"))
	require.Equal(t, "x<bb>x", re.ReplaceAllString("xabbx", "<$1>"))
	require.Equal(t, "xABBx", re.ReplaceAllStringFunc("xabbx", strings.ToUpper))
	require.Panics(t, func() { New(`(`).MatchString("") }, "a mistake is found at the first use")
}
