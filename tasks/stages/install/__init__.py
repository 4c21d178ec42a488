"""Install: the torch and the extensions that were built, put into a person's own environment.

Given install.into, wheel.json and the extensions' manifests; leaves install.json: what now lies
there. Everything is looked at, and what gives way is kept in build/PROFILE/replaced, before a file
is changed; what does not import then gives way to what was there. `doit restore` is the way back.
Reruns when a wheel changed, and when what was put there does not lie there any more.
"""
