package host

import (
	"context"
	"testing"

	"github.com/kubehsm/kubehsm/hsm/hsmtest"
	"github.com/kubehsm/kubehsm/plugin/agent/client"
)

// BenchmarkPrepareWarm is what kubectl waits for in the usual case, beside the
// start of the plugin's process: on an open connection, and with the dial.
func BenchmarkPrepareWarm(b *testing.B) {
	r := newRig(b, rigOptions{})
	r.mustPrepare(hsmtest.NewScript(b, hsmtest.PIN(pin)))
	b.Run("round trip", func(b *testing.B) {
		c := r.dial()
		for b.Loop() {
			if _, err := r.prepare(c, caller(1), nil); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("with dial", func(b *testing.B) {
		for b.Loop() {
			c, err := client.Dial(context.Background(), r.dirs)
			check(b, err)
			if _, err := r.prepare(c, caller(1), nil); err != nil {
				b.Fatal(err)
			}
			check(b, c.Close())
		}
	})
}
