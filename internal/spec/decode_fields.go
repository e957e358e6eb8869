package spec

import (
	"reflect"
)

// inlineTag marks a field of type Part that takes the keys of a Beefile.
const inlineTag = ",inline"

// inlineOf returns the part of a struct that takes the keys of a Beefile, or nil.
func inlineOf(v reflect.Value) *Part {
	for i := range v.NumField() {
		if v.Type().Field(i).Tag.Get("yaml") == inlineTag {
			return v.Field(i).Addr().Interface().(*Part)
		}
	}
	return nil
}

// keyOf is the key of a field, or "".
func keyOf(f reflect.StructField) string {
	if key := f.Tag.Get("yaml"); key != "-" && key != inlineTag {
		return key
	}
	return ""
}

func fieldIndex(t reflect.Type) map[string]int {
	index := make(map[string]int, t.NumField())
	for i := range t.NumField() {
		if key := keyOf(t.Field(i)); key != "" {
			index[key] = i
		}
	}
	return index
}

func keysOf(t reflect.Type) []string {
	var keys []string
	for i := range t.NumField() {
		if key := keyOf(t.Field(i)); key != "" {
			keys = append(keys, key)
		}
		if t.Field(i).Tag.Get("yaml") == inlineTag {
			keys = append(keys, keysOf(reflect.TypeFor[Job]())...)
		}
	}
	return keys
}
