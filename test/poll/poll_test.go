package poll

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// refused is a test that notes why it failed.
type refused struct {
	testing.TB
	why string
}

func (r *refused) Helper()                        {}
func (r *refused) Fatalf(format string, a ...any) { r.why = format + a[0].(string) }

func TestPoll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begin := time.Now()
		Until(t, "a minute is over", func() bool { return time.Since(begin) > time.Minute })
		if late := time.Since(begin) - time.Minute; late > 100*time.Millisecond {
			t.Errorf("noticed %s late", late)
		}
		begin = time.Now()
		if Within(time.Second, func() bool { return false }) || time.Since(begin) < time.Second {
			t.Errorf("gave up after %s", time.Since(begin))
		}
		r := &refused{TB: t}
		Until(r, "the moon is blue", func() bool { return false })
		if !strings.Contains(r.why, "the moon is blue") {
			t.Errorf("said %q", r.why)
		}
	})
}
