// Package request works with certificate requests in clusters: who approves them lists,
// looks at and decides on them ([Requests]), who filed them follows them ([Own]). It
// knows nothing of enrollments but the records of those under way.
package request
