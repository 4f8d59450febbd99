// Package span writes durations in words.
package span

import (
	"fmt"
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
