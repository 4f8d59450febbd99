package expiry

import "time"

// Day is a time in a sentence, to the minute, where the user is.
func Day(t time.Time) string { return t.Local().Format("2006-01-02 15:04") }
