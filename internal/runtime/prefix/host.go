package prefix

import "encoding/json"

// OfHost returns what stands for a prefix where programs are those that the host has installed:
// they are started as they are, and only the job's places have other paths. No directory is made.
func OfHost(in Input) (*Prefix, error) {
	in.Tree = "/"
	p := &Prefix{tree: in.Tree, host: true, places: placesOf(in)}
	mark, err := json.Marshal(Mark{Tree: in.Tree, Binary: in.Binary, Places: in.Places})
	if err != nil {
		return nil, err
	}
	p.own = []string{Variable + "=" + string(mark)}
	return p, nil
}
