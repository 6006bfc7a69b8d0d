package egress

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// S3, case 69: search domains make no other name of one.
func TestAbsolute_S3(t *testing.T) {
	require.Equal(t, "api.example.com.", absolute("api.example.com"))
	require.Equal(t, "localhost", absolute("localhost"))
}
