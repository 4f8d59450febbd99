package approver

import (
	"strconv"
	"testing"
	"testing/synctest"
	"time"
)

// Whoever asks while a reading is under way gets the next one, with all others who wait.
func TestReading(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var r reading
		began := 0
		read := func() (string, error) {
			began++
			value := strconv.Itoa(began)
			<-time.After(time.Second)
			return value, nil
		}
		answers := make(chan string, 4)
		ask := func() {
			go func() {
				value, err := r.share(read)
				if err != nil {
					t.Error(err)
				}
				answers <- value
			}()
			synctest.Wait()
		}
		for range 4 {
			ask()
		}
		for _, want := range []string{"1", "2", "2", "2"} {
			if got := <-answers; got != want {
				t.Errorf("the answer is of reading %s, not %s", got, want)
			}
		}
	})
}
