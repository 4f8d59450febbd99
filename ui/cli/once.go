package cli

import (
	"fmt"

	"github.com/spf13/pflag"
)

// once refuses a flag that is given twice: of two names the last would win silently.
func once(f *pflag.FlagSet, names ...string) {
	for _, name := range names {
		flag := f.Lookup(name)
		flag.Value = &onceValue{Value: flag.Value}
	}
}

type onceValue struct {
	pflag.Value
	set bool
}

// Set implements [pflag.Value].
func (v *onceValue) Set(text string) error {
	if v.set {
		return fmt.Errorf("the flag may be given only once: run the command once for each user")
	}
	v.set = true
	return v.Value.Set(text)
}
