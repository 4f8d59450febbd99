package widget

import (
	"strconv"
	"strings"
)

// Zone is a part of one line on the screen on which a click does something: columns From to
// To, without that one, all from 0.
type Zone struct {
	Name           string
	Line, From, To int
}

// What the names of zones begin with.
const (
	ZoneRow    = "row:"    // the number of a row follows
	ZoneOption = "option:" // the number of the focused field's option follows
	ZoneTab    = "tab:"    // the number of a top screen follows
	ZoneKey    = "key:"    // the name of a key follows
)

// The messages of clicks.
type (
	// RowMsg puts the cursor on a row, or the focus on a field.
	RowMsg struct{ Row int }
	// OptionMsg chooses an option of the field that has the focus.
	OptionMsg struct{ Option int }
)

// The marks of a zone have the form of a colour, so that whatever measures and cuts rendered
// text passes them on. No terminal has colours of these numbers, and clean text cannot hold
// them. The name stands in the mark, a number for each byte.
const (
	zoneBegin = "\x1b[9998"
	zoneEnd   = "\x1b[9999m"
)

// Click marks rendered text of one line as a zone.
func Click(name, s string) string {
	var b strings.Builder
	b.WriteString(zoneBegin)
	for _, c := range []byte(name) {
		b.WriteByte(';')
		b.WriteString(strconv.Itoa(int(c)))
	}
	b.WriteByte('m')
	return b.String() + s + zoneEnd
}

// Row marks a line as the row of that number.
func Row(n int, line string) string { return Click(ZoneRow+strconv.Itoa(n), line) }

// TakeZones removes the marks from a rendered screen and returns the zones.
func TakeZones(s string) (clean string, zones []Zone) {
	if !strings.Contains(s, zoneBegin) {
		return s, nil
	}
	lines := strings.Split(s, "\n")
	for i, l := range lines {
		lines[i], zones = takeZones(l, i, zones)
	}
	return strings.Join(lines, "\n"), zones
}

func takeZones(line string, at int, zones []Zone) (string, []Zone) {
	for {
		before, rest, found := strings.Cut(line, zoneBegin)
		if !found {
			return strings.ReplaceAll(line, zoneEnd, ""), zones
		}
		name, rest, _ := strings.Cut(rest, "m")
		inside, after, _ := strings.Cut(rest, zoneEnd)
		before = strings.ReplaceAll(before, zoneEnd, "")
		z := Zone{Name: zoneName(name), Line: at, From: Width(before)}
		z.To = z.From + Width(inside)
		zones = append(zones, z)
		line = before + inside + after
	}
}

func zoneName(numbers string) string {
	var b strings.Builder
	for _, n := range strings.Split(strings.TrimPrefix(numbers, ";"), ";") {
		if c, err := strconv.ParseUint(n, 10, 8); err == nil {
			b.WriteByte(byte(c))
		}
	}
	return b.String()
}

// ZoneAt returns the zone at a column and a line.
func ZoneAt(zones []Zone, x, y int) (z Zone, ok bool) {
	for _, z := range zones {
		if z.Line == y && x >= z.From && x < z.To {
			return z, true
		}
	}
	return Zone{}, false
}
