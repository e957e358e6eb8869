package spec

import (
	"fmt"
	"math"
	"reflect"
	"strings"
	"time"
	"unicode/utf8"
)

// Bounds of a job in a record that another user has written: more than any Beefile
// can have.
const (
	mostElements = 100000
	mostNumber   = math.MaxInt32
)

// FromRecord checks a job that a record of another user holds as if it came from a
// Beefile, and completes it. Relative paths in it start at dir. Its error, of kind
// Invalid, holds all that is wrong.
func FromRecord(what string, job Job, dir string) (*Job, error) {
	t := &Draft{Job: &job, report: newReport(what, nil), read: true}
	job.Dir = dir
	size := 0
	t.report.recorded("", reflect.ValueOf(&job).Elem(), &size)
	if job.Nodes < 1 { // where a Beefile says nothing, it is one
		t.report.at("nodes", "", "nodes: %d cannot be", job.Nodes)
	}
	if size > maxFile {
		t.report.at("", "", "it has %d bytes of text; at most %d are read", size, maxFile)
	}
	return t.Finish()
}

// recorded finds values that the parser of a Beefile would not have given.
func (r *report) recorded(at string, v reflect.Value, size *int) {
	if len(r.problems) > 0 || *size > maxFile {
		return
	}
	switch v.Kind() { // a job has no others
	case reflect.Pointer:
		if !v.IsNil() {
			r.recorded(at, v.Elem(), size)
		}
	case reflect.Struct:
		for i := range v.NumField() {
			key := v.Type().Field(i).Tag.Get("yaml")
			if key == "" {
				key = strings.ToLower(v.Type().Field(i).Name)
			}
			r.recorded(strings.TrimPrefix(at+"."+key, "."), v.Field(i), size)
		}
	case reflect.Slice:
		if v.Len() > mostElements {
			r.at(at, "", "%s: it has %d elements", at, v.Len())
			return
		}
		for i := range v.Len() {
			r.recorded(fmt.Sprintf("%s[%d]", at, i), v.Index(i), size)
		}
	case reflect.Map:
		if v.Len() > mostElements {
			r.at(at, "", "%s: it has %d elements", at, v.Len())
			return
		}
		for _, key := range v.MapKeys() {
			r.recorded(at, key, size)
			r.recorded(at+"."+key.String(), v.MapIndex(key), size)
		}
	case reflect.String:
		text := v.String()
		*size += len(text)
		if !utf8.ValidString(text) || strings.Contains(text, "\x00") {
			r.at(at, "", "%s: it is no text", at)
		}
	case reflect.Int, reflect.Int64:
		least, most := int64(0), int64(mostNumber)
		switch v.Type() {
		case reflect.TypeFor[time.Duration](), reflect.TypeFor[Size](), reflect.TypeFor[BitRate]():
			most = math.MaxInt64
		case reflect.TypeFor[GPUs]():
			least = int64(AllGPUs)
		}
		if n := v.Int(); n < least || n > most {
			r.at(at, "", "%s: %d cannot be", at, n)
		}
	}
}
