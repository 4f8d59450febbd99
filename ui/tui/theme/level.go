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

// Marked is a fact's value, with a mark before it if it is bad or a reason to look
// closer: colours alone say nothing to those who do not see them.
func (t Theme) Marked(f present.Fact) string {
	if f.Value != "" && f.Level >= present.Warn {
		return t.Glyphs.Warn + " " + f.Value
	}
	return f.Value
}
