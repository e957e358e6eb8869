package event

import (
	"bytes"
	"encoding/json"
	"reflect"
	"sync"

	"github.com/bee-hpc/bee/internal/core"
)

// Bounds of the fields of one event, which quote sites and heads: bytes of one text,
// bytes of all texts, and elements of a list.
const (
	MaxText  = 4 << 10
	maxTexts = 8 << 10
	MaxList  = 20
)

// Encode returns the fields as JSON, in one form for equal fields. Long texts and lists
// are cut, and control characters are written out.
func Encode(f Fields) (json.RawMessage, error) {
	raw, err := json.Marshal(f)
	if err != nil {
		return nil, err
	}
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		return nil, err
	}
	left := maxTexts
	return json.Marshal(bounded(v, &left))
}

// bounded cuts the texts and lists of a JSON value. left is how many bytes of texts may
// still come.
func bounded(v any, left *int) any {
	switch v := v.(type) {
	case string:
		text := core.Printable(v, min(MaxText, *left))
		*left -= len(text)
		return text
	case []any:
		v = v[:min(len(v), MaxList)]
		for i := range v {
			v[i] = bounded(v[i], left)
		}
		return v
	case map[string]any:
		for _, key := range sortedKeys(v) {
			v[key] = bounded(v[key], left)
		}
	}
	return v
}

// Decode returns the fields of a kind from JSON. A kind that is not known, or fields of
// another shape, become Other.
func Decode(k Kind, raw json.RawMessage) Fields {
	if t, known := types()[k]; known {
		f := reflect.New(t)
		if json.Unmarshal(raw, f.Interface()) == nil {
			return f.Elem().Interface().(Fields)
		}
	}
	if !json.Valid(raw) {
		raw = json.RawMessage("{}")
	}
	return Other{k, raw}
}

// types has the type of each kind.
var types = sync.OnceValue(func() map[Kind]reflect.Type {
	m := map[Kind]reflect.Type{}
	for _, f := range All() {
		m[f.Kind()] = reflect.TypeOf(f)
	}
	return m
})
