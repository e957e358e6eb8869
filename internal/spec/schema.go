package spec

import (
	"errors"
	"math"
	"reflect"
	"slices"
	"time"

	"github.com/bee-hpc/bee/internal/core"
)

// Schema returns the JSON Schema (2020-12) of "beefile" or "sites", made from the
// types of the parser, the rules of the checks and the texts in keys.yaml.
func Schema(which string) (map[string]any, error) {
	var root map[string]any
	m, err := meaningsOf(which)
	if err != nil {
		return nil, err
	}
	switch which {
	case "beefile":
		root = m.schemaOf(reflect.TypeFor[Job](), "")
		root["oneOf"] = []any{map[string]any{"required": []string{"image"}}, map[string]any{"required": []string{"build"}}}
	case "sites":
		root = m.schemaOf(reflect.TypeFor[SitesFile](), "")
		root["required"] = []string{"sites"}
	default:
		return nil, &core.Error{Kind: core.Invalid, Op: "find schema", Object: which, Err: errors.New("there is none of that name"), Remedy: "Ask for beefile, sites or study."}
	}
	return finished(which, root), nil
}

// finished adds what the schema of every file has.
func finished(which string, root map[string]any) map[string]any {
	root["patternProperties"] = map[string]any{"^" + extension: map[string]any{}}
	root["$schema"] = "https://json-schema.org/draft/2020-12/schema"
	root["title"] = which
	return root
}

// schemaOf is the schema of the values of a type, at a path without indexes.
func (m meanings) schemaOf(t reflect.Type, at string) map[string]any {
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	text := map[string]any{"type": []string{"string", "number", "boolean"}}
	if own, ok := reflect.New(t).Interface().(interface{ Pattern() string }); ok {
		if pattern := own.Pattern(); pattern != "" {
			text["pattern"] = pattern
		}
		return text
	}
	switch t {
	case reflect.TypeFor[Command]():
		words := map[string]any{"type": "array", "items": text}
		if slices.Contains(wanted(), at) {
			words["minItems"] = 1
		}
		return oneOf(text, words)
	case reflect.TypeFor[Cases]():
		values := map[string]any{"type": "object", "additionalProperties": text}
		return oneOf(map[string]any{"type": "object"}, map[string]any{"type": "array", "items": values})
	case reflect.TypeFor[OnFailure]():
		return oneOf(map[string]any{"enum": []string{onFailureContinue, onFailureStop}}, m.objectSchema(t, at))
	case reflect.TypeFor[After]():
		mapping := m.objectSchema(t, at)
		on := mapping["properties"].(map[string]any)["on"].(map[string]any)
		delete(on, "type")
		on["enum"] = afterWords()
		return oneOf(text, mapping)
	case reflect.TypeFor[Input]():
		mapping := m.objectSchema(t, at)
		earlier := m.objectSchema(reflect.TypeFor[RunPath](), join(at, "from"))
		earlier["required"] = []string{"run", "path"}
		properties := mapping["properties"].(map[string]any)
		from := properties["from"].(map[string]any)
		says := from["description"]
		delete(from, "description")
		both := oneOf(from, earlier)
		both["description"] = says
		properties["from"] = both
		return mapping
	case reflect.TypeFor[Output]():
		return oneOf(map[string]any{"type": "string"}, m.objectSchema(t, at))
	case reflect.TypeFor[Build]():
		return oneOf(map[string]any{"type": "string"}, m.objectSchema(t, at))
	case reflect.TypeFor[VM]():
		return oneOf(map[string]any{"type": "boolean"}, map[string]any{"const": VMAuto}, m.objectSchema(t, at))
	case reflect.TypeFor[RDMA](), reflect.TypeFor[Progress]():
		return oneOf(map[string]any{"enum": words()[at]}, m.objectSchema(t, at))
	case reflect.TypeFor[Placement]():
		mapping := m.objectSchema(reflect.TypeFor[placementForm](), at)
		mapping["minProperties"], mapping["maxProperties"] = 1, 1
		return oneOf(map[string]any{"enum": words()[at]}, mapping)
	case reflect.TypeFor[Price]():
		return oneOf(numberSchema("number", at), m.objectSchema(t, at))
	case reflect.TypeFor[Volume]():
		return oneOf(map[string]any{"enum": words()[at+".kind"]}, map[string]any{"type": "string", "pattern": "^/"}, m.objectSchema(t, at))
	case reflect.TypeFor[Size]():
		return oneOf(map[string]any{"type": "integer", "minimum": 0}, map[string]any{"type": "string", "pattern": `^[0-9.]+ *([kKmMgGtT](i?[bB])?)?$`})
	case reflect.TypeFor[GPUs]():
		return oneOf(map[string]any{"type": "integer", "minimum": 0}, map[string]any{"const": "all"})
	case reflect.TypeFor[Hosts]():
		return oneOf(numberSchema("integer", at), map[string]any{"type": "string"}, map[string]any{"type": "array", "items": map[string]any{"type": "string"}})
	case reflect.TypeFor[BitRate]():
		return map[string]any{"type": "string", "pattern": `^[0-9.]+ *([kKmMgG])?bit$`}
	case reflect.TypeFor[time.Duration]():
		return oneOf(map[string]any{"const": 0}, map[string]any{"type": "string", "pattern": durationPattern})
	case reflect.TypeFor[Site]():
		s := m.objectSchema(t, at)
		s["required"] = []string{"name", "provider"}
		return s
	}
	switch t.Kind() {
	case reflect.Struct:
		return m.objectSchema(t, at)
	case reflect.Slice:
		return map[string]any{"type": "array", "items": m.schemaOf(t.Elem(), at+"[]")}
	case reflect.Map:
		s := map[string]any{"type": "object", "additionalProperties": m.schemaOf(t.Elem(), at+"[]")}
		if pattern, ok := patterns()[at]; ok {
			s["propertyNames"] = map[string]any{"pattern": pattern}
		}
		return s
	case reflect.Int, reflect.Int64:
		return numberSchema("integer", at)
	case reflect.Float64:
		return numberSchema("number", at)
	case reflect.Bool:
		return map[string]any{"type": "boolean"}
	}
	if choice, ok := words()[at]; ok {
		return map[string]any{"enum": choice}
	}
	if pattern, ok := patterns()[at]; ok {
		text["pattern"] = pattern
	}
	return text
}

func numberSchema(kind, at string) map[string]any {
	s := map[string]any{"type": kind}
	if l, ok := numbers()[at]; ok {
		s["minimum"] = l.least
		if !math.IsInf(l.most, 1) {
			s["maximum"] = l.most
		}
	}
	return s
}

func oneOf(forms ...any) map[string]any { return map[string]any{"oneOf": forms} }

func (m meanings) objectSchema(t reflect.Type, at string) map[string]any {
	properties := map[string]any{}
	for i := range t.NumField() {
		if t.Field(i).Tag.Get("yaml") == inlineTag {
			for key, p := range m.inline {
				if _, own := properties[key]; !own {
					properties[key] = p
				}
			}
		}
		if key := keyOf(t.Field(i)); key != "" {
			p := m.schemaOf(t.Field(i).Type, join(at, key))
			if says := m.texts[join(at, key)]; says != "" {
				p["description"] = says
			}
			properties[key] = p
		}
	}
	return map[string]any{"type": "object", "properties": properties, "additionalProperties": false}
}
