package signing

import (
	"context"
	"crypto"
	"crypto/sha256"
	"errors"
	"path/filepath"
	"testing"
	"time"

	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/plugin/socket"
)

// TestSuspendedAgentHoldsNoKey: the client goes on without it, and stops waiting
// when it is told to.
func TestSuspendedAgentHoldsNoKey(t *testing.T) {
	path := filepath.Join(t.TempDir(), "agent.sock")
	l, err := socket.Listen(path) // a suspended agent accepts nothing
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	digest := sha256.Sum256(nil)
	sign := func(ctx context.Context, silence time.Duration) (bool, error) {
		_, held, err := Agent{Socket: path, silence: silence}.Sign(ctx, hsm.URI{Scheme: hsm.SchemePIV}, digest[:],
			crypto.SHA256)
		return held, err
	}
	if held, err := sign(t.Context(), time.Millisecond); held || err != nil {
		t.Errorf("held %t, %v", held, err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := sign(ctx, time.Hour); !errors.Is(err, context.DeadlineExceeded) {
		t.Error(err)
	}
}
