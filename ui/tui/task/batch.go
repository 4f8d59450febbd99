package task

import "time"

// Batch hands on what comes from in, most at a time: the first of them waits no
// longer than wait. It returns when in is closed and empty.
func Batch[T any](in <-chan T, most int, wait time.Duration, each func([]T)) {
	for first := range in {
		batch := []T{first}
		t := time.NewTimer(wait)
	fill:
		for len(batch) < most {
			select {
			case x, ok := <-in:
				if !ok {
					break fill
				}
				batch = append(batch, x)
			case <-t.C:
				break fill
			}
		}
		t.Stop()
		each(batch)
	}
}
