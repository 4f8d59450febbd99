// Package expiry says in time that a certificate ends.
package expiry

import (
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/kubehsm/kubehsm/hsm/shared/regularfile"
	"github.com/kubehsm/kubehsm/plugin/home"
)

// When a certificate should be renewed: dueShare is the share of its life that is
// left, dueMost the longest time before its end that is worth a word. What ends
// before somebody is back at work, at resumes o'clock, is due from noon on, but for
// one that is younger than fresh.
const (
	dueShare = 3
	dueMost  = 30 * aDay
	noon     = 12
	resumes  = 10
	fresh    = 2 * time.Hour
	dueSoon  = 4 * aDay // the next working day is nearer
)

// Due tells whether a certificate that is valid from notBefore to notAfter should
// be renewed: a third of its life is left, or 30 days if that is less; or it is
// afternoon where now is, the certificate is two hours old, and it ends before ten
// o'clock on the next working day, Monday to Friday. One that has ended is due.
func Due(notBefore, notAfter, now time.Time) bool {
	left := notAfter.Sub(now)
	if left <= min(notAfter.Sub(notBefore)/dueShare, dueMost) {
		return true
	}
	if left > dueSoon || now.Hour() < noon || now.Sub(notBefore) < fresh {
		return false
	}
	back := time.Date(now.Year(), now.Month(), now.Day()+1, resumes, 0, 0, 0, now.Location())
	for weekend(back) {
		back = back.AddDate(0, 0, 1)
	}
	return !notAfter.After(back)
}

// RenewableFrom is when a certificate that is valid from notBefore to notAfter may be renewed, wherever its holder is:
// before it is [Due], and before the agent renews it.
func RenewableFrom(notBefore, notAfter time.Time) time.Time {
	half := notAfter.Add(-notAfter.Sub(notBefore) / 2)
	soon := notAfter.Add(-dueSoon)
	if aged := notBefore.Add(fresh); aged.After(soon) {
		soon = aged
	}
	if soon.Before(half) {
		return soon
	}
	return half
}

// Left says in words how long a certificate is still good: "ends in 3 days",
// "ended 2 hours ago".
func Left(notAfter, now time.Time) string {
	left := notAfter.Sub(now)
	if left <= 0 {
		return "ended " + span(-left) + " ago"
	}
	return "ends in " + span(left)
}

func span(d time.Duration) string {
	unit, n := "minute", int(d/time.Minute)
	switch {
	case d >= 48*time.Hour:
		unit, n = "day", int(d/(24*time.Hour))
	case d >= 2*time.Hour:
		unit, n = "hour", int(d/time.Hour)
	}
	if n != 1 {
		unit += "s"
	}
	return strconv.Itoa(n) + " " + unit
}

// WarningOf is a line that tells a person of the end of the certificate of the
// enrollment called name, which is due; the command gets the next one.
func WarningOf(name, command string, notAfter, now time.Time) string {
	return "the certificate of " + name + " " + Left(notAfter, now) + ": run `" + command + "`"
}

// aDay is how long a warning is not repeated.
const aDay = 24 * time.Hour

// Dir is the folder of the marks in the state folder.
func Dir(state string) string { return filepath.Join(state, "warned") }

// Told tells whether the warning of that name was given within a day, by its mark
// in dir, for the certificate that ends at notAfter: its successor has a warning
// of its own. A mark in the future, from before a clock was set back, counts for
// nothing.
func Told(dir, name string, notAfter, now time.Time) bool {
	path := filepath.Join(dir, name)
	info, err := os.Stat(path)
	if err != nil || now.Sub(info.ModTime()) >= aDay || !info.ModTime().Before(now.Add(time.Minute)) {
		return false
	}
	mark, err := regularfile.Read(path, 32)
	return err == nil && string(mark) == markOf(notAfter)
}

func markOf(notAfter time.Time) string { return strconv.FormatInt(notAfter.Unix(), 10) }

// OnceADay tells whether the warning of that name is to be given now, and marks
// it as given in dir (made 0700 if it is missing). Where no mark can be set it is
// always to be given: better twice than never.
func OnceADay(dir, name string, notAfter, now time.Time) bool {
	if Told(dir, name, notAfter, now) {
		return false
	}
	path := filepath.Join(dir, name)
	err := os.MkdirAll(dir, 0o700)
	if err == nil {
		err = home.WriteFile(path, []byte(markOf(notAfter)))
	}
	if err == nil {
		_ = os.Chtimes(path, now, now) // the file system's time is as good
	}
	return true
}
