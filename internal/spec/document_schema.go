package spec

import (
	"reflect"
	"strings"
)

// DocumentSchema returns the JSON Schema (2020-12) of documents of a type, with the texts in
// keys.yaml of which. words are the choices of keys, by their path without indexes; required
// are the keys that no file leaves out.
func DocumentSchema(which string, t reflect.Type, words map[string][]string, required ...string) (map[string]any, error) {
	m, err := meaningsOf(which)
	if err != nil {
		return nil, err
	}
	part, err := partProperties()
	if err != nil {
		return nil, err
	}
	m.inline = part
	root := m.schemaOf(t, "")
	for path, choice := range words {
		at := root
		for _, step := range strings.Split(strings.ReplaceAll(path, "[]", ".[]"), ".") {
			at = stepInto(at, step)
		}
		delete(at, "type")
		at["enum"] = choice
	}
	root["required"] = required
	return finished(which, root), nil
}

// stepInto returns the schema of a key, or of the elements for "[]".
func stepInto(schema map[string]any, step string) map[string]any {
	var inner any
	switch {
	case step != "[]":
		inner = schema["properties"].(map[string]any)[step]
	case schema["items"] != nil:
		inner = schema["items"]
	default:
		inner = schema["additionalProperties"]
	}
	return inner.(map[string]any)
}

// partProperties are the keys of a Beefile in a document, whose values may be variables.
func partProperties() (map[string]any, error) {
	m, err := meaningsOf("beefile")
	if err != nil {
		return nil, err
	}
	properties := m.schemaOf(reflect.TypeFor[Job](), "")["properties"].(map[string]any)
	for key, p := range properties {
		properties[key] = withVariables(p.(map[string]any))
	}
	return properties, nil
}

// withVariables allows a text with ${NAME} in place of every value.
func withVariables(schema map[string]any) map[string]any {
	variable := map[string]any{"type": "string", "pattern": `\$\{`}
	forms, is := schema["oneOf"].([]any)
	if !is {
		forms = []any{schema}
	}
	says := schema["description"]
	delete(schema, "description")
	anyOf := []any{variable} // not oneOf: a text with a variable may fit several forms
	for _, f := range forms {
		form := f.(map[string]any)
		for _, key := range []string{"items", "additionalProperties"} {
			if inner, is := form[key].(map[string]any); is {
				form[key] = withVariables(inner)
			}
		}
		if properties, is := form["properties"].(map[string]any); is {
			for key, p := range properties {
				properties[key] = withVariables(p.(map[string]any))
			}
		}
		anyOf = append(anyOf, form)
	}
	out := map[string]any{"anyOf": anyOf}
	if says != nil {
		out["description"] = says
	}
	return out
}
