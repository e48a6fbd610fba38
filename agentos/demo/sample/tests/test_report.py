from shelf.books import Book, Shelf
from shelf.report import inventory


def test_the_inventory_has_one_line_per_book():
    shelf = Shelf()
    shelf.add(Book("2", "Second"))
    shelf.add(Book("1", "First"))
    assert inventory(shelf) == "1  First\n2  Second"
