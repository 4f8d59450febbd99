// Package expiry says in time that a certificate ends. It imports nothing that
// costs start-up time: the exec credential plugin uses it.
package expiry

import (
	"os"
	"path/filepath"
	"strconv"
	"time"
)

// due is the share of its life that a certificate has left when it should be
// renewed, and the longest time before its end that is worth a word.
const (
	dueShare = 3
	dueMost  = 30 * 24 * time.Hour
)

// Due tells whether a certificate that is valid from notBefore to notAfter
// should be renewed: less than a third of its life is left, and less than 30
// days. One that has ended is due.
func Due(notBefore, notAfter, now time.Time) bool {
	left := notAfter.Sub(now)
	return left <= min(notAfter.Sub(notBefore)/dueShare, dueMost)
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

// Warning is a line that tells a person of the end of the certificate of the
// enrolment called name, which the command again enrols anew; "" if it is not due.
func Warning(name, again string, notBefore, notAfter, now time.Time) string {
	if !Due(notBefore, notAfter, now) {
		return ""
	}
	return WarningOf(name, again, notAfter, now)
}

// WarningOf is Warning for a certificate that is due.
func WarningOf(name, again string, notAfter, now time.Time) string {
	command := "kubehsm certificate renew " + name
	if !notAfter.After(now) {
		command = again
	}
	return "the certificate of " + name + " " + Left(notAfter, now) + ": run `" + command + "`"
}

// aDay is how long a warning is not repeated.
const aDay = 24 * time.Hour

// Dir is the folder of the marks in the state folder.
func Dir(state string) string { return filepath.Join(state, "warned") }

// Told tells whether the warning of that name was given within a day, by its
// mark in dir. A mark in the future, from before a clock was set back, counts
// for nothing.
func Told(dir, name string, now time.Time) bool {
	info, err := os.Stat(filepath.Join(dir, name))
	return err == nil && now.Sub(info.ModTime()) < aDay && info.ModTime().Before(now.Add(time.Minute))
}

// OnceADay tells whether the warning of that name is to be given now, and marks
// it as given in dir (made 0700 if it is missing). Where no mark can be set it is
// always to be given: better twice than never.
func OnceADay(dir, name string, now time.Time) bool {
	if Told(dir, name, now) {
		return false
	}
	path := filepath.Join(dir, name)
	err := os.MkdirAll(dir, 0o700)
	if err == nil {
		err = os.WriteFile(path, nil, 0o600)
	}
	if err == nil {
		_ = os.Chtimes(path, now, now) // the file system's time is as good
	}
	return true
}
