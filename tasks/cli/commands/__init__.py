"""Commands that inspect, share or remove builds. No command changes what is built."""
