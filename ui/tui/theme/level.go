package theme

import "github.com/kubehsm/kubehsm/ui/present"

// Level is how a level looks.
func (t Theme) Level(l present.Level) Style {
	switch l {
	case present.Good:
		return t.Good
	case present.Warn:
		return t.Warn
	case present.Bad:
		return t.Bad
	}
	return t.Muted
}
