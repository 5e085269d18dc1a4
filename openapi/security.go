package openapi

// securitySchemes are the ways in which a caller may present a credential; token
// is [Options.Token].
func securitySchemes(token string) object {
	if token != "" {
		return object{
			{"bearer", object{{"type", "http"}, {"scheme", "bearer"}, {"description", token}}},
			{"certificate", object{{"type", "mutualTLS"}}},
		}
	}
	return object{
		{"bearer", object{
			{"type", "http"}, {"scheme", "bearer"}, {"bearerFormat", "<app>.<token>"},
			{"description", "The app's id, a dot, and the token."},
		}},
		{"basic", object{
			{"type", "http"}, {"scheme", "basic"},
			{"description", "The app's id as user, the token as password."},
		}},
		{"app", object{
			{"type", "apiKey"}, {"in", "header"}, {"name", "X-App"},
			{"description", "The app's id, with the token in X-Token."},
		}},
		{"token", object{
			{"type", "apiKey"}, {"in", "header"}, {"name", "X-Token"},
			{"description", "The token, with the app's id in X-App."},
		}},
	}
}

// security says that one of them is needed.
func security(token string) array {
	none := array{}
	if token != "" {
		return array{object{{"bearer", none}}, object{{"certificate", none}}}
	}
	return array{
		object{{"bearer", none}},
		object{{"basic", none}},
		object{{"app", none}, {"token", none}},
	}
}
