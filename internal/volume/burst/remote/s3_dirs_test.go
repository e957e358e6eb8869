package remote

import "testing"

// TestMovable has objects below a directory stay whose keys are no paths: their copies would be at the
// names of others, or nowhere.
func TestMovable(t *testing.T) {
	for f, want := range map[listed]bool{
		{name: ""}: true, {name: "f", size: 1}: true, {name: "d/f"}: true, {name: "d/"}: true, {name: "..f"}: true,
		{name: "", size: 1}: false, {name: "/f"}: false, {name: "d//f"}: false, {name: "d//"}: false, {name: "/"}: false,
		{name: "../f"}: false, {name: "d/./f"}: false, {name: "d/", size: 1}: false, {name: "a\x00"}: false,
	} {
		if movable(f) != want {
			t.Errorf("%+v is to be moved: %v", f, !want)
		}
	}
}
