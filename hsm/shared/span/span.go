// Package span writes durations in words.
package span

import (
	"fmt"
	"strconv"
	"time"
)

const day = 24 * time.Hour

// Of writes a duration by its largest unit: 45 min, 20 h, 89 d, 1 y. It is rounded
// down, but for an hour that is missing in a day: a year that began a minute ago is a year.
func Of(d time.Duration) string {
	days := int((d + time.Hour) / day)
	switch {
	case d < time.Minute:
		return "under 1 min"
	case d < 2*time.Hour && d != time.Hour:
		return fmt.Sprintf("%d min", d/time.Minute)
	case d < 2*day:
		return fmt.Sprintf("%d h", d/time.Hour)
	case days < 365 || days < 730 && days > 366:
		return fmt.Sprintf("%d d", days)
	}
	return fmt.Sprintf("%d y", days/365)
}

// Limit writes a time limit in the largest unit of which it is a whole number: 15 seconds, 90 seconds,
// 2 minutes, 24 hours. Fractions of a second are rounded to a tenth.
func Limit(d time.Duration) string {
	for _, unit := range []struct {
		d    time.Duration
		name string
	}{{time.Hour, "hour"}, {time.Minute, "minute"}} {
		if d >= unit.d && d%unit.d == 0 {
			return count(int64(d/unit.d), unit.name)
		}
	}
	if d%time.Second == 0 {
		return count(int64(d/time.Second), "second")
	}
	return strconv.FormatFloat(d.Round(100*time.Millisecond).Seconds(), 'f', 1, 64) + " seconds"
}

func count(n int64, unit string) string {
	if n == 1 {
		return "1 " + unit
	}
	return fmt.Sprintf("%d %ss", n, unit)
}
