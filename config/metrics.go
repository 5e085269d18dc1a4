package config

// Metrics says which apps have series of their own. All others share the label
// app="other".
type Metrics struct {
	// Apps that always have.
	Apps []string `yaml:"apps"`
	// How many of the other apps have: those with the most calls. 0: none.
	TopApps int `yaml:"top_apps" default:"20" max:"1000"`
}
