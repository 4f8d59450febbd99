// Package cli is the command line: cobra commands, one verb a file, thin on
// top of ui/flow. A command turns its flags into the options of a use case and
// its result into words or, with -o, into JSON or YAML.
//
// Results go to standard output, everything else (progress, notes, errors,
// questions) to standard error or the terminal. The field names of JSON and
// YAML are stable: fields are added, never renamed or removed.
package cli
