package expiry

import "time"

// The agent renews in working time, from opens to closes o'clock, Monday to Friday, once
// renewShare of renewOf of the certificate's life have gone by.
const (
	opens, closes       = 8, 18
	renewShare, renewOf = 2, 3
)

// Renews tells whether the agent is to renew a certificate that is valid from notBefore to
// notAfter: two thirds of its life have gone by, and it is working time where now is, or it ends
// before the next working hour begins. One that has ended cannot ask for its successor.
func Renews(notBefore, notAfter, now time.Time) bool {
	life := notAfter.Sub(notBefore)
	if !now.Before(notAfter) || now.Sub(notBefore) < life/renewOf*renewShare {
		return false
	}
	next := works(now)
	return next.Equal(now) || !notAfter.After(next)
}

// works is now if that is working time, or else when it begins again.
func works(now time.Time) time.Time {
	at := func(hour int) time.Time {
		return time.Date(now.Year(), now.Month(), now.Day(), hour, 0, 0, 0, now.Location())
	}
	begin := at(opens)
	if !weekend(now) && !now.Before(begin) && now.Before(at(closes)) {
		return now
	}
	for weekend(begin) || begin.Before(now) {
		begin = begin.AddDate(0, 0, 1)
	}
	return begin
}

func weekend(t time.Time) bool { return t.Weekday() == time.Saturday || t.Weekday() == time.Sunday }

// LeftToAgent tells whether nobody needs to hear yet of a certificate that the agent renews by
// itself: a quarter of the time that the agent has for it is still left.
func LeftToAgent(notBefore, notAfter, now time.Time) bool {
	return notAfter.Sub(now) > notAfter.Sub(notBefore)*(renewOf-renewShare)/renewOf/4
}
