package credential

import "os"

// terminalSignals are those that keys send to all programs of a console.
var terminalSignals = []os.Signal{os.Interrupt}
