package record

import (
	"bytes"
	"encoding/json"
)

// Rewrite changes all texts of a value, wherever its JSON has them. Keys stay as they are.
func Rewrite[T any](v *T, change func(string) string) error {
	text, err := json.Marshal(v)
	if err != nil {
		return err
	}
	var all any
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber() // a seed is no float
	if err := d.Decode(&all); err != nil {
		return err
	}
	if text, err = json.Marshal(rewritten(all, change)); err != nil {
		return err
	}
	var changed T
	if err := json.Unmarshal(text, &changed); err != nil {
		return err
	}
	*v = changed
	return nil
}

func rewritten(v any, change func(string) string) any {
	switch x := v.(type) {
	case string:
		return change(x)
	case []any:
		for i := range x {
			x[i] = rewritten(x[i], change)
		}
	case map[string]any:
		for k := range x { // names of fields, variables and metrics
			x[k] = rewritten(x[k], change)
		}
	}
	return v
}
