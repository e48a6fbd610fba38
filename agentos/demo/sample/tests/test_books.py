from shelf.books import Book, Shelf


def test_books_are_listed_by_isbn():
    shelf = Shelf()
    shelf.add(Book("2", "Second"))
    shelf.add(Book("1", "First"))
    assert [book.title for book in shelf.all()] == ["First", "Second"]
