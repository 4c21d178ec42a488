"""Wheels as files, the folder of them, and what lies installed of one."""
